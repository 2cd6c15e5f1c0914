"""Think again, or think longer: interventions and their rivals."""
