"""GCFL+ at an institution (Xie et al. 2021): FedAvg's client half with one more metric."""

from typing import ClassVar

from torch.nn.utils import get_total_norm

from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.fedavg import FedAvg
from shared.wire import GRADIENT_NORM, NUM_EXAMPLES


class GCFL(FedAvg):
    """Reports the norm of its last gradient; the coordinator compares series of them."""

    metrics: ClassVar[tuple[str, ...]] = (NUM_EXAMPLES, GRADIENT_NORM)

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Run a round of FedAvg and report ‖g_i‖ of its last step, section 4.3."""
        result = super().fit(received, round_number)
        gradients = [p.grad for p in self._task.model.parameters() if p.grad is not None]
        norm = float(get_total_norm(gradients)) if gradients else 0.0
        return LocalResult(result.upload, result.metrics | {GRADIENT_NORM: norm}, result.warnings)
