"""How near simulated logs come to the published numbers."""
