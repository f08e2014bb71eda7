"""Options as frozen dataclasses: how they are declared, checked and read as typed by a user."""
