"""Models for other programs: rows in a file that is mapped, graphs of ONNX, and rows with predictions to compare."""
