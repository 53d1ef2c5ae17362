"""Institutions that attack a federation, against the real strategy and the real client."""
