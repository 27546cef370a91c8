// What every kernel shares: three storage buffers, and one push-constant block.
// Bindings: 0 and 1 are read, 2 is written. A kernel declares only those it uses, with its own types.

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
  uint position;  // Of the token in its sequence.
  uint count;     // Elements in use of a row: positions of the cache, or the vocabulary.
  uint stride;    // Elements from one row to the next.
  uint offset;    // First element to write in the output.
  float value;    // Sampling threshold.
} push;
