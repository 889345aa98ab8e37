"""Rollouts that share prefixes: forks, trees and tree search."""
