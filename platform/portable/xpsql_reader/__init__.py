"""Scores exports as serving without xpsql, by numpy and ONNX Runtime; MLflow takes this folder along with a model."""
