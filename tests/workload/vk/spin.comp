#version 450
// Busy work: `rounds` steps of a linear congruential generator for each element.
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 1) const uint kFlavour = 1;
layout(push_constant) uniform Push { uint rounds; };
layout(std430, binding = 0) buffer Data { uint values[]; };

void main() {
  uint value = values[gl_GlobalInvocationID.x] + kFlavour;
  for (uint i = 0; i < rounds; ++i) value = value * 1664525u + 1013904223u;
  values[gl_GlobalInvocationID.x] = value;
}
