"""What every figure is drawn with: page, style, letters, labels, panels."""
