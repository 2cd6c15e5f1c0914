"""The paired bootstrap of every policy's metrics, and what stands in its place in the corners."""
