// The command policy: trust policies as bundles that travel. `trust --install` puts them where they count.
#pragma once

namespace mlc::cli {

class Program;

void add_policy_commands(Program& program);

}  // namespace mlc::cli
