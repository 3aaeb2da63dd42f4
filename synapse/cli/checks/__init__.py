"""What `synapse doctor` looks at beside the workspace itself."""
