"""What each event is, and what belongs to it: arrays per event, without shapes and without words."""
