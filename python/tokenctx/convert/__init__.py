"""Requests and answers from one dialect to another, with a list of what could not be carried over.

One module per dialect reads into a neutral conversation (`model`) and writes from it; nothing is
written for a pair of dialects.
"""

from tokenctx.convert.conversion import Conversion, convert_messages, convert_response
from tokenctx.convert.notes import KINDS, ConversionError, ConversionNote, ConversionOptions

__all__ = [
    "KINDS",
    "Conversion",
    "ConversionError",
    "ConversionNote",
    "ConversionOptions",
    "convert_messages",
    "convert_response",
]
