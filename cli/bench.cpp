// `ocm bench`: latency and bandwidth by size for each fabric of the running cluster, beside memcpy and a
// raw socket loop.
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/fabrics.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/rates.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/process.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  std::vector<std::string> fabrics;
  std::vector<uint64_t> sizes{64, 4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB};
  double seconds_each = 0.1;
  bool json = false;
  std::string plot;
};

struct Skipped {
  std::string what;
  Status why;
};

struct Report {
  std::vector<Rate> rates;
  std::vector<Skipped> skipped;
};

void append(Report& report, const std::string& what, Result<std::vector<Rate>> rates) {
  if (rates.is_ok()) {
    report.rates.insert(report.rates.end(), rates->begin(), rates->end());
  } else {
    report.skipped.push_back({what, rates.status()});
  }
}

Result<Report> bench(const Globals& globals, const BenchOptions& options) {
  const bool all = options.fabrics.empty();
  const std::vector<std::string> offered = offered_fabrics();
  const std::vector<std::string>& fabrics = all ? offered : options.fabrics;
  for (const std::string& fabric : fabrics) {
    if (std::find(offered.begin(), offered.end(), fabric) == offered.end()) {
      return Status(Code::kInvalidArgument, "--fabric " + fabric + " is none of " + offered_fabrics(", "));
    }
  }
  OCM_TRY_ASSIGN(Session session, open_session(globals));
  const auto budget_ns = static_cast<uint64_t>(options.seconds_each * 1e9);
  Report report;
  append(report, "memcpy", measure_memcpy(options.sizes, budget_ns));
  append(report, "raw tcp", measure_raw(options.sizes, budget_ns));
  for (const std::string& fabric : fabrics) {
    OCM_TRY(check_interrupt());
    Result<std::vector<Rate>> rates = measure_fabric(session.get(), fabric, options.sizes, budget_ns);
    // What was asked for by name must work; what a cluster may lack is told and left out.
    if (!rates.is_ok() && (!all || rates.status().code() != Code::kUnsupported)) {
      return Status(rates.status().code(), fabric + ": " + std::string(rates.status().message()));
    }
    append(report, fabric, std::move(rates));
  }
  OCM_TRY(check_interrupt());
  return report;
}

void print_json(const Report& report) {
  Json results = Json::array(), skipped = Json::array();
  for (const Rate& rate : report.rates) {
    results.push_back({{"what", rate.what},
                       {"direction", rate.direction},
                       {"bytes", rate.bytes},
                       {"ns_median", rate.ns_median},
                       {"ns_min", rate.ns_min},
                       {"ns_max", rate.ns_max},
                       {"operations", rate.operations},
                       {"bytes_per_second", rate.bytes_per_second()}});
  }
  for (const Skipped& each : report.skipped) {
    skipped.push_back({{"what", each.what}, {"why", each.why.to_string()}});
  }
  puts(Json{{"version", ocm_version()}, {"results", results}, {"skipped", skipped}}.dump(2).c_str());
}

/// In single quotes of gnuplot, where a quote is doubled.
std::string gnuplot_quoted(const std::string& text) {
  std::string out = "'";
  for (const char letter : text) out += letter == '\'' ? "''" : std::string(1, letter);
  return out + "'";
}

std::string curves(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "plot " : ", ") + ("$data" + std::to_string(i)) +
            " using 1:COLUMN with linespoints title " + gnuplot_quoted(names[i]);
  }
  return text + "\n";
}

std::string plot_script(const std::vector<Rate>& rates, const std::string& path) {
  std::vector<std::string> names;
  std::string script;
  for (const Rate& rate : rates) {
    const std::string name = rate.direction == "copy" ? rate.what : rate.what + " " + rate.direction;
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    script += "$data" + std::to_string(names.size()) + " << EOD\n";
    for (const Rate& point : rates) {
      if (point.what != rate.what || point.direction != rate.direction) continue;
      char line[96];
      snprintf(line, sizeof(line), "%llu %.6g %.6g\n", static_cast<unsigned long long>(point.bytes),
               point.ns_median / 1e3, point.bytes_per_second() / 1e9);
      script += line;
    }
    script += "EOD\n";
    names.push_back(name);
  }
  auto with_column = [&](const char* column) {
    std::string text = curves(names);
    for (size_t at = text.find("COLUMN"); at != std::string::npos; at = text.find("COLUMN")) {
      text.replace(at, 6, column);
    }
    return text;
  };
  script += "set terminal pngcairo size 1400,600 font 'sans,11'\nset output " + gnuplot_quoted(path) +
            "\nset multiplot layout 1,2\nset grid\nset logscale xy\nset key top left\n"
            "set format x '%.0b %BB'\nset xlabel 'bytes of one operation'\n"
            "set title 'time of one operation'\nset ylabel 'us'\n" +
            with_column("2") + "set title 'bandwidth'\nset ylabel 'GB/s'\nset key bottom right\n" +
            with_column("3") + "unset multiplot\n";
  return script;
}

Status write_plot(const std::vector<Rate>& rates, const std::string& path) {
  const std::string gnuplot = find_program("gnuplot");
  if (gnuplot.empty()) {
    return Status(Code::kNotFound,
                  "--plot needs gnuplot, which is not in PATH; `apt-get install gnuplot-nox` "
                  "brings it");
  }
  FILE* pipe = popen("gnuplot >/dev/null 2>&1", "we");
  if (pipe == nullptr) return Status::from_errno(errno, "start gnuplot");
  const std::string script = plot_script(rates, path);
  fwrite(script.data(), 1, script.size(), pipe);
  if (pclose(pipe) != 0 || access(path.c_str(), R_OK) != 0) {
    return Status(Code::kIo,
                  "gnuplot could not write " + path + "; check that the folder is there and writable");
  }
  return Status::ok();
}

int run_bench(const Globals& globals, BenchOptions& options) {
  catch_interrupts();
  ocm_interrupt_check([](int, void*) { return interrupted() ? 1 : 0; }, nullptr);
  std::sort(options.sizes.begin(), options.sizes.end());
  Result<Report> report = bench(globals, options);
  if (!report.is_ok()) {
    const Status interrupt = check_interrupt();
    return fail(interrupt.is_ok() ? report.status() : interrupt);
  }
  if (options.json) {
    print_json(report.value());
  } else {
    print_rates(report->rates);
    for (const Skipped& skipped : report->skipped) {
      printf("\n%s is not in the table: %s\n", skipped.what.c_str(),
             std::string(skipped.why.message()).c_str());
    }
  }
  if (options.plot.empty()) return kExitOk;
  const Status plotted = write_plot(report->rates, options.plot);
  if (!plotted.is_ok()) return fail(plotted);
  if (!options.json) printf("\nplotted to %s\n", options.plot.c_str());
  return kExitOk;
}

}  // namespace

void add_bench(CommandLine& line) {
  auto options = std::make_shared<BenchOptions>();
  const Globals& globals = line.globals();
  line.add("bench", "Measure each fabric, compared with memcpy and a raw socket loop")
      .texts("-f,--fabric", options->fabrics, offered_fabrics(",").c_str(),
             "Only these; none: all that the cluster has")
      .byte_list("--sizes", options->sizes, "Sizes of one operation [64 to 64MiB]")
      .seconds("--seconds-each", options->seconds_each, "How long each point is measured")
      .flag("--json", options->json, "Print JSON")
      .text("--plot", options->plot, "FILE.png", "Also plot the results, with gnuplot")
      .runs([options, &globals] { return run_bench(globals, *options); });
}

}  // namespace ocm::cli
