#include "apps/warehouse/duckdb.h"

#include <dlfcn.h>

namespace ocm::warehouse {
namespace {

Result<void*> load(const std::string& path, int flags) {
  if (void* library = dlopen(path.c_str(), RTLD_LAZY | flags)) return library;
  const char* why = dlerror();
  return Status(Code::kNotFound, "cannot load " + path + ": " + (why != nullptr ? why : "no reason given"));
}

}  // namespace

Result<Duckdb> load_duckdb(const std::string& library, const std::string& python) {
  if (!python.empty()) OCM_TRY(load(python, RTLD_GLOBAL).status());
  OCM_TRY_ASSIGN(void* handle, load(library, RTLD_LOCAL));
  Duckdb duckdb;
#define OCM_DUCKDB_LOAD(name, type)                                                                      \
  duckdb.name = reinterpret_cast<Duckdb::name##_type*>(dlsym(handle, "duckdb_" #name));                  \
  if (duckdb.name == nullptr) {                                                                          \
    return Status(Code::kUnsupported, library + " has no duckdb_" #name "; DuckDB 1.4 or later has it"); \
  }
  OCM_DUCKDB_FUNCTIONS(OCM_DUCKDB_LOAD)
#undef OCM_DUCKDB_LOAD
  return duckdb;
}

}  // namespace ocm::warehouse
