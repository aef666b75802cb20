"""Audits: does the privacy that is claimed hold for the code that runs?"""
