"""The institution's Flower app: messages in, messages out.

Flower starts a process for each message and loads this module in it. Importing torch and opening
the graph would take longer than the training: the process only forwards to the institution's
worker, which stays. A simulation keeps its processes itself, and answers in them; so does a
supernode whose node-config says ``worker=false``.
"""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedgt_client.adapter import ClientCache, handle
from fedgt_client.error_replies import reply_or_error
from fedgt_client.node import NodeConfig
from fedgt_client.worker.forward import Forwarder
from fedgt_client.worker.supernode import Supernode

app = ClientApp()
# Of this process, and so of the module: Ray passes the app's functions by their names.
clients = ClientCache()
# Found when Flower loads the app. This process may outlive the supernode for a while; whoever is
# its parent then must not be taken for one.
forwarder = Forwarder(Supernode.of_this_process())


@app.query()
def query(message: Message, context: Context) -> Message:
    """Introduce this institution."""
    return reply_or_error(message, lambda: _reply(message, context))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for a round."""
    return reply_or_error(message, lambda: _reply(message, context))


def _reply(message: Message, context: Context) -> Message:
    node = NodeConfig.parse(context.node_config)
    if node.uses_worker:
        return forwarder.forward(message, context, node)
    return handle(message, context, clients)
