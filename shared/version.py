"""The version both sides must share."""

VERSION = "0.1.0"
