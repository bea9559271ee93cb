"""Learning from edges by vertex programs: workers have edges, and the driver the values of vertices."""
