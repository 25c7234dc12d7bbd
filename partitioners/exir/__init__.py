"""The export API: edge programs, partitioners, delegates."""
