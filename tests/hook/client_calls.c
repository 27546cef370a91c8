#include "client_calls.h"

#include <smeltr/smeltr.h>

int c_recording(void) { return smeltr_recording(); }

void c_decode_step(int step) {
  smeltr_field fields[4];
  fields[0] = smeltr_int("step", step);
  fields[1] = smeltr_bool("warm", 2);
  fields[2] = smeltr_float("temperature", 0.5);
  fields[3] = smeltr_string("phase", "decode");
  smeltr_scope_push_fields("step", fields, 4);
  smeltr_scope_push("attention");
  smeltr_scope_pop();
  smeltr_mark_fields("token", fields, 1);
  smeltr_scope_pop();
}

void c_odd_arguments(void) {
  smeltr_field many[SMELTR_MAX_FIELDS + 8];
  size_t i;
  for (i = 0; i < SMELTR_MAX_FIELDS + 8; ++i) many[i] = smeltr_int("n", (int64_t)i);
  smeltr_scope_pop();
  smeltr_mark(NULL);
  smeltr_mark_fields("null fields", NULL, 3);
  many[0] = smeltr_string(NULL, NULL);
  many[1].type = (smeltr_field_type)99;
  smeltr_mark_fields("many", many, SMELTR_MAX_FIELDS + 8);
}
