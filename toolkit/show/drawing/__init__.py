"""The parts of every figure: page, style, lettering, labels, panels."""
