"""Pure functions over tables."""
