#include "packager/nest/proc.h"

namespace mlc::nest {

void DeleteProc::operator()(Proc* proc) const { delete proc; }

}  // namespace mlc::nest
