"""What is fitted before a replay: calibration, priors, conformal thresholds."""
