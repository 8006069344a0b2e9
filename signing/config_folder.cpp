// Names of user_key.h: what a reader needs, without the code of private keys. Where the folders are is a matter of the system.
#include "signing/user_key.h"

namespace mlc::signing {

std::string user_key_path(const std::string& config_folder) { return config_folder + "/key.pem"; }
std::string trust_folder(const std::string& config_folder) { return config_folder + "/trust"; }
std::string local_name(const PublicKey& key) { return "local:" + key.id_prefix(); }

}  // namespace mlc::signing
