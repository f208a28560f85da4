# Filled when the package is installable.
