"""Analysis of models and estimators: credit against exact values, support, entropy laws, models compared in pairs."""
