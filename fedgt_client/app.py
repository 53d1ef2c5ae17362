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
from fedgt_client.privacy.outbound import describe_reply, record_reply
from fedgt_client.worker.forward import Forwarder
from fedgt_client.worker.supernode import Supernode
from shared.errors import FedGTError

app = ClientApp()
# Of this process, and so of the module: Ray passes the app's functions by their names.
clients = ClientCache()
# Found when Flower loads the app. This process may outlive the supernode for a while; whoever is
# its parent then must not be taken for one.
forwarder = Forwarder(Supernode.of_this_process())


@app.query()
def query(message: Message, context: Context) -> Message:
    """Introduce this institution."""
    return _answer(message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for a round."""
    return _answer(message, context)


def _answer(message: Message, context: Context) -> Message:
    simulated = "partition-id" in context.node_config
    reply = reply_or_error(message, lambda: _reply(message, context), simulated=simulated)
    return reply_or_error(message, lambda: _recorded(message, reply, context), simulated=simulated)


def _recorded(message: Message, reply: Message, context: Context) -> Message:
    """Return a reply that stands in the outbound record; one that cannot be written stays here."""
    try:
        node = NodeConfig.parse(context.node_config)
    except FedGTError:
        return reply  # which says this very error
    if not node.is_simulated:
        record_reply(node.state_root(), describe_reply(message, reply, context, node.name))
    return reply


def _reply(message: Message, context: Context) -> Message:
    node = NodeConfig.parse(context.node_config)
    if node.uses_worker:
        return forwarder.forward(message, context, node)
    return handle(message, context, clients)
