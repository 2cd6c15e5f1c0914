"""SeVRA (Dip, Zhou and Zhang): think again or think longer."""
