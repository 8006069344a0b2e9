// The numbers of errors, in words: behind `mlpack help E4001` and `mlrun help E4001`. Tests hold the list against the sources and
// against the tables of spec/. A contract: numbers are never reused.
#pragma once

#include <cstdint>
#include <string_view>

namespace mlc::cli {

struct ErrorNumber {
  uint16_t number;
  std::string_view exits;  // "6", or "2, 3, 7": exit codes
  std::string_view meaning;
  std::string_view page;   // where to read on
};

inline constexpr std::string_view kModelPage = "README.md, \"What models it takes\"";

inline constexpr ErrorNumber kErrorNumbers[] = {
    {1001, "4", "no container: a file of another kind", "spec/container.md"},
    {1002, "4", "no ONNX model: a file of another kind", kModelPage},
    {1003, "3", "a file that is named cannot be read", "spec/pipeline.md, \"Errors\""},
    {1010, "4", "an array of the model has no element type, or an unknown one", kModelPage},
    {1011, "4", "graphs of the model are nested too deep", kModelPage},
    {1012, "4", "the graph of the model is not well formed: names that are missing, unknown or given twice", kModelPage},
    {1013, "4", "the model is longer than a protobuf file can be", kModelPage},
    {1014, "4", "the encoding of the model is broken", kModelPage},
    {1015, "4", "numbers of the model overflow, or do not belong to each other", kModelPage},
    {1016, "4", "a file of the model's data lies outside its folder", kModelPage},
    {1017, "4", "functions of the model do not fit their calls, or call themselves", kModelPage},
    {1101, "4", "the container is truncated", "spec/container.md"},
    {1102, "4", "an executable whose trailer does not fit it", "spec/container.md, section 13"},
    {2001, "5", "no variant may or can run here", "docs/machines.md; mlrun explain FILE"},
    {2002, "2", "no variant has that name", "docs/machines.md; mlrun explain FILE"},
    {2004, "20", "the model is of an opset that is not known", kModelPage},
    {2006, "20", "an array of the model is of a kind that is not supported", kModelPage},
    {2007, "20", "an attribute of the model is of a kind that no operator takes", kModelPage},
    {2008, "7", "sparse tensors of the model are too large", kModelPage},
    {2010, "20, 70", "an extent cannot be computed before the run", kModelPage},
    {2011, "20", "ports of the model: too many, too many axes, or of unknown rank", kModelPage},
    {2012, "20", "an operator is not supported on such elements", kModelPage},
    {2013, "20", "the rank of an array is not known while building", kModelPage},
    {2014, "7", "the bodies of the model are too large when they are expanded", kModelPage},
    {2015, "4, 20", "an operator is not supported for such inputs and attributes", kModelPage},
    {3001, "10", "not signed, and the policy wants a signature", "spec/signing.md, docs/production.md"},
    {3002, "11", "signed, but not by enough keys that are trusted for this model", "spec/signing.md, docs/production.md"},
    {3101, "12", "no signature matches: the file or its signature was changed", "spec/signing.md"},
    {3102, "12", "bytes are not those that were signed", "spec/signing.md"},
    {3103, "12", "the signed statement is about another model, or says what it must not", "spec/signing.md"},
    {3110, "4", "the signature block is damaged", "spec/signing.md"},
    {3201, "13", "the file or the key has expired", "spec/signing.md, docs/production.md"},
    {3202, "13", "the root or the key is revoked", "spec/signing.md, docs/production.md"},
    {3203, "13", "below the policy's `min_version`", "spec/signing.md, docs/production.md"},
    {3204, "5", "segments or variants are missing that the policy wants", "spec/signing.md"},
    {3205, "13", "below a version that was accepted before", "spec/signing.md, docs/production.md"},
    {3301, "4", "not a key of a supported kind", "spec/signing.md, docs/production.md"},
    {3302, "2", "a damaged policy or trusted key", "spec/signing.md, docs/production.md"},
    {3303, "11", "a private key that is another user's, or that others may read or write", "spec/signing.md, docs/production.md"},
    {3304, "11", "a policy, trusted key or list of versions seen that others than the user and root may change", "spec/signing.md"},
    {3305, "3", "a policy, trusted key or list of versions seen that is there and cannot be read", "spec/signing.md"},
    {3306, "2, 3, 7", "the versions seen: damaged; cannot be remembered; full", "spec/signing.md"},
    {3401, "4", "no policy bundle, a damaged one, or no chain of them", "spec/signing.md, docs/production.md"},
    {3402, "11", "a policy bundle that too few administrators have signed, of the policy that is there or its own", "spec/signing.md, docs/production.md"},
    {3403, "12", "a policy bundle with a wrong signature of an administrator: it was changed", "spec/signing.md"},
    {3404, "13", "a policy bundle whose time to be installed has passed", "spec/signing.md, docs/production.md"},
    {3405, "13", "a policy bundle of a version that is older than what is or was installed", "spec/signing.md, docs/production.md"},
    {3406, "3", "policy bundles of versions between are missing", "spec/signing.md, docs/production.md"},
    {3407, "2", "nothing says whose policy bundles count here, or two things do", "spec/signing.md, docs/production.md"},
    {4001, "6", "inputs missing, unknown, or of the wrong kind", "spec/pipeline.md; mlpack inspect FILE"},
    {4002, "6", "the shapes of the inputs do not fit each other or the model", "spec/plan.md; mlpack inspect FILE"},
    {4003, "6", "with the shapes of the inputs an extent cannot be computed", "spec/plan.md; mlpack inspect FILE"},
    {4004, "6", "the memory that is given for an output is too small", "spec/plan.md"},
    {4005, "6", "values of the inputs do not fit the model: an index outside of its array, a division by zero", "spec/plan.md"},
    {5001, "2", "an unknown key or step of the pipeline", "spec/pipeline.md, \"Errors\""},
    {5002, "2", "keys of the pipeline are missing", "spec/pipeline.md, \"Errors\""},
    {5003, "2", "labels or character set and columns do not fit", "spec/pipeline.md, \"Errors\""},
    {5004, "2", "a value of the pipeline of the wrong kind or range, or of no meaning beside the others", "spec/pipeline.md, \"Errors\""},
    {5005, "2", "wrong use of values of the pipeline: undefined, defined twice, unused, of another kind", "spec/pipeline.md, \"Errors\""},
    {5006, "2", "the pipeline is not JSON, or too large", "spec/pipeline.md, \"Errors\""},
    {5007, "2", "a step or key of the pipeline that this version does not have", "spec/pipeline.md, \"Errors\""},
    {5008, "20", "a step of the pipeline that is not compiled yet", "spec/pipeline.md, \"Errors\""},
    {5009, "2, 20", "the pipeline and the program that it runs do not fit", "spec/pipeline.md, \"Errors\""},
    {6001, "4", "the container was changed while it was open", "spec/container.md"},
    {6002, "70", "a process ended with an illegal instruction", "spec/isolation.md"},
    {6003, "70", "a process ended with a memory fault", "spec/isolation.md"},
    {6004, "8", "a run took longer than its time limit", "spec/untrusted.md"},
    {6005, "7", "a run took more work than its limit", "spec/untrusted.md"},
    {6006, "7", "inputs, a run or its answers take more memory than is allowed", "spec/untrusted.md, spec/isolation.md"},
    {6011, "70", "a process tried what it has no right to", "spec/isolation.md"},
    {6012, "7, 8, 70", "a process was killed, or has used up its time", "spec/isolation.md"},
    {6013, "7", "there is no process without privileges on this system", "spec/isolation.md"},
};

}  // namespace mlc::cli
