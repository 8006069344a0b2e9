// Strings in operator texts. Arrays of strings have DType::Str while a model is expanded, expressions see the u64 numbers of
// their texts (nest.h: StringsIn): a type variable of the class `any` may be bound to strings, and results of that type hold
// strings again. That is right as long as elements are moved and asked whether they are equal, which is checked here.
#pragma once

#include "packager/nest/nest.h"

namespace mlc::lang {

// What the statements from `first` on do with strings that means nothing, as the end of a sentence; null: nothing.
const char* looks_into_texts(const nest::Function& function, size_t first);

}  // namespace mlc::lang
