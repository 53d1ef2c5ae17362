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


def create_app(clients: ClientCache | None = None, forwarder: Forwarder | None = None) -> ClientApp:
    """Return an app that answers with ``clients`` in this process, or forwards to a worker."""
    app, here = ClientApp(), clients or ClientCache()
    # Found now, when Flower loads the app. This process may outlive the supernode for a while;
    # whoever is its parent then must not be taken for one.
    worker = forwarder or Forwarder(Supernode.of_this_process())

    def reply(message: Message, context: Context) -> Message:
        node = NodeConfig.parse(context.node_config)
        if node.uses_worker:
            return worker.forward(message, context, node)
        return handle(message, context, here)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        """Introduce this institution."""
        return reply_or_error(message, lambda: reply(message, context))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        """Train for a round."""
        return reply_or_error(message, lambda: reply(message, context))

    return app


app = create_app()
