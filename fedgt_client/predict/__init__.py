"""Labels and probabilities for nodes, with a model that an institution has trained.

Prediction needs neither coordinator nor network nor Flower: only the model and a graph.
"""

from fedgt_client.data.own_data import OwnData, open_data
from fedgt_client.predict.model import Model
from fedgt_client.predict.source import load_model

__all__ = ["Model", "OwnData", "load_model", "open_data"]
