"""Bytes for people: where, which, and as characters."""

WIDTH = 16


def hexdump(data: bytes) -> str:
    """Return bytes as lines of an offset, WIDTH bytes in hexadecimal, and the printable ones among them."""
    return "\n".join(_line(start, data[start : start + WIDTH]) for start in range(0, len(data), WIDTH))


def _line(start: int, piece: bytes) -> str:
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
    return f"{start:08x}  {piece.hex(' '):<{3 * WIDTH - 1}}  {shown}"
