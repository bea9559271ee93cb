"""The parameter server as a service: typed tables that other programs pull from and push to, and commit as versions."""
