"""Kinds of arms: what can be observed of an arm, and what is known of it then."""
