// Programmatic dependent launch: a launch may begin before the one before it has ended.
#include "block.h"
#include "generations.h"

namespace efemu {

// Only a hint: what the next launch may see, and when, is decided by its own grid_wait.
void grid_launch_dependents(int line) {
  note_progress(line);
}

void grid_wait(int line) {
  note_progress(line);
  wait_for_grids();
}

}  // namespace efemu
