"""How right a model's answers are: labelled sets, figures of accuracy and calibration, and layouts measured side by side."""
