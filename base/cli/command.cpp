#include "base/cli/command.h"

#include <utility>

#include <CLI/CLI.hpp>

namespace mlc::cli {

Option Option::required(bool is_required) const {
  option_->required(is_required);
  return *this;
}

Option Option::one_of(const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return *this;
}

Option Option::within(int lowest, int highest) const {
  option_->check(CLI::Range(lowest, highest));
  return *this;
}

Option Option::within(double lowest, double highest) const {
  option_->check(CLI::Range(lowest, highest));
  return *this;
}

Option Option::not_negative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option Option::positive() const {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option Option::separated_by(char mark) const {
  option_->delimiter(mark);
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::shows_default() const {
  option_->capture_default_str();
  return *this;
}

Option Option::shows_default(const std::string& text) const {
  option_->default_str(text);
  return *this;
}

Option Option::may_lack_value(const std::string& shown) const {
  option_->expected(0, 1)->type_name(shown);
  return *this;
}

bool Option::is_given() const { return option_->count() > 0; }

Option Command::add_option(const std::string& names, std::string& value, const std::string& description) const {
  return Option(app_->add_option(names, value, description));
}
Option Command::add_option(const std::string& names, uint32_t& value, const std::string& description) const {
  return Option(app_->add_option(names, value, description));
}
Option Command::add_option(const std::string& names, uint64_t& value, const std::string& description) const {
  return Option(app_->add_option(names, value, description));
}
Option Command::add_option(const std::string& names, int64_t& value, const std::string& description) const {
  return Option(app_->add_option(names, value, description));
}
Option Command::add_option(const std::string& names, double& value, const std::string& description) const {
  return Option(app_->add_option(names, value, description));
}
Option Command::add_option(const std::string& names, std::vector<std::string>& values, const std::string& description) const {
  return Option(app_->add_option(names, values, description));
}
Option Command::add_option(const std::string& names, std::set<std::string>& values, const std::string& description) const {
  return Option(app_->add_option(names, values, description));
}
Option Command::add_option(const std::string& names, std::vector<uint32_t>& values, const std::string& description) const {
  return Option(app_->add_option(names, values, description));
}

Option Command::add_flag(const std::string& names, bool& value, const std::string& description) const {
  return Option(app_->add_flag(names, value, description));
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

void Command::remove_option(const std::string& name) const { app_->remove_option(app_->get_option(name)); }

void Command::on_run(std::function<int()> run) const {
  app_->callback([run = std::move(run), exit_code = exit_code_] { *exit_code = run(); });
}

const std::string& Command::name() const { return app_->get_name(); }

}  // namespace mlc::cli
