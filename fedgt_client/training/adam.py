"""Adam by torch's own fused kernel, without torch's optimiser class.

That class imports torch's compiler: 0.9 CPU seconds in every process of an institution, and a
folder that stays among the temporary files.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim.adam import adam

_BETAS = 0.9, 0.999


class Adam:
    """Adam (Kingma & Ba 2015), with L2 decay or with decoupled decay (Loshchilov & Hutter 2019).

    ``state`` holds, for each parameter that ever had a gradient, the number of steps and both
    moments by torch's names.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        lr: float,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        epsilon: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self._weight_decay = weight_decay
        self._decoupled = decoupled_weight_decay
        self._epsilon = epsilon

    def zero_grad(self) -> None:
        """Forget all gradients; weights without one stay as they are."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, found_inf: Tensor | None = None) -> None:
        """Take a step along the gradients; none where ``found_inf``, shape (), is 1."""
        moved = [parameter for parameter in self.parameters if parameter.grad is not None]
        states = [self.state.get(parameter) or self._begin(parameter) for parameter in moved]
        adam(
            moved,
            [parameter.grad for parameter in moved if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            found_inf=found_inf,
            amsgrad=False,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            lr=self.lr,
            weight_decay=self._weight_decay,
            eps=self._epsilon,
            maximize=False,
            decoupled_weight_decay=self._decoupled,
        )

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        self.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        return self.state[parameter]
