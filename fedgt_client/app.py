"""The institution's Flower app: messages in, messages out.

Flower starts a process for each message and loads this module in it. Importing torch and opening
the graph would take longer than the training: the process only forwards to the institution's
worker, which stays. A simulation keeps its processes itself, and answers in them; so does a
supernode whose node-config says ``worker=false``.
"""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedgt_client.error_replies import answer_here, answering
from fedgt_client.worker.forward import forward

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Introduce this institution."""
    return _answer(message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Play a round."""
    return _answer(message, context)


def _answer(message: Message, context: Context) -> Message:
    node = context.node_config
    if "partition-id" in node or not node.get("worker", True):
        return answer_here(message, context)
    return answering(forward)(message, context)
