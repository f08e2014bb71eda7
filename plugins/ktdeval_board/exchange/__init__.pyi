"""Public names of a board's data frames, loaded when they are first used."""

from ktdeval_board.exchange.board_data import Column as Column, columns_of as columns_of
from ktdeval_board.exchange.data_frames import (
    load_daily_frame as load_daily_frame,
    load_episodes_frame as load_episodes_frame,
    load_frame as load_frame,
    load_imported_frame as load_imported_frame,
)
from ktdeval_board.exchange.tables import load_published as load_published
