"""What is compared: a module for each system, with how it is started and how a program talks to it."""
