"""`deco-calibrated`: the price path of the calibrated index, chosen by what its policy earns."""
