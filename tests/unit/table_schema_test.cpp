// Arrow formats and schemas: what is taken, what is refused and how it says which column.
#include <gtest/gtest.h>

#include "api/arrow_builder.h"
#include "table/format/schema.h"

namespace {

using namespace ocm;
using namespace ocm::table;
namespace build = arrow_builder;

Result<Field> import(const build::Field& field) {
  ArrowSchema schema;
  build::export_field(field, &schema);
  Result<Field> imported = import_schema(schema);
  schema.release(&schema);
  return imported;
}
Result<Field> import_column(const build::Field& column) { return import(build::record({column})); }

build::Field nested(int depth) {
  build::Field field{"i", "leaf"};
  for (int i = 0; i < depth; ++i) field = {"+l", "level", {field}};
  return field;
}

TEST(TableType, KnowsEveryFormatThatIsStored) {
  for (const char* format :
       {"n",          "b",    "c",    "C",     "s",        "S",          "i",          "I",    "l",
        "L",          "e",    "f",    "g",     "z",        "Z",          "u",          "U",    "vz",
        "vu",         "w:0",  "w:42", "d:9,2", "d:9,2,32", "d:18,-3,64", "d:76,0,256", "tdD",  "tdm",
        "tts",        "ttm",  "ttu",  "ttn",   "tiM",      "tiD",        "tin",        "tss:", "tsm:UTC",
        "tsu:+01:00", "tsn:", "tDs",  "tDn",   "+s",       "+l",         "+L",         "+m",   "+w:3"}) {
    ASSERT_TRUE(parse_type(format).is_ok()) << format;
    EXPECT_TRUE(parse_type(format).value().is_valid()) << format;
  }
}

TEST(TableType, RefusesWhatIsNoFormat) {
  for (const char* format :
       {"",          "x",    "ii",   "d:",  "d:1",   "d:1,2,3", "d:0,0", "d:77,0,256",
        "d:9,2,64x", "w:",   "w:-1", "w:x", "+w:-1", "+w:",     "+x",    "tdx",
        "ts",        "tsx:", "tss",  "tD",  "tDq",   "v",       "vx",    "d:99999999999,0"}) {
    EXPECT_EQ(parse_type(format).status().code(), Code::kInvalidArgument) << format;
  }
  EXPECT_EQ(parse_type("w:999999999").status().code(), Code::kTooLarge);
}

TEST(TableType, RefusesUnionsRunsAndListViews) {
  for (const char* format : {"+ud:0,1", "+us:0", "+r", "+vl", "+vL"}) {
    EXPECT_EQ(parse_type(format).status().code(), Code::kUnsupported) << format;
  }
}

TEST(TableSchema, RefusesNamesThatAreNoText) {
  const Result<Field> imported = import(build::record({{"i", "fine"},
                                                       {"i",
                                                        "\xff\xfe"
                                                        "b"}}));
  EXPECT_EQ(imported.status().code(), Code::kInvalidArgument);
  EXPECT_NE(imported.status().message().find("column 1"), std::string_view::npos)
      << imported.status().message();
  EXPECT_TRUE(import_column({"i", "\u00e9"}).is_ok());
}

TEST(TableSchema, ComesBackAsItWas) {
  const std::string metadata("\1\0\0\0\3\0\0\0key\5\0\0\0value", 20);
  const build::Field given =
      build::record({{"i", "number", {}, {}, 0, metadata},
                     {"+s", "pair", {{"u", "a"}, {"tsu:UTC", "b"}}},
                     {"c", "color", {}, {{"u", ""}}, ARROW_FLAG_NULLABLE | ARROW_FLAG_DICTIONARY_ORDERED}});
  const Result<Field> imported = import(given);
  ASSERT_TRUE(imported.is_ok());
  ArrowSchema out;
  export_schema(imported.value(), &out);
  ASSERT_EQ(out.n_children, 3);
  EXPECT_STREQ(out.children[0]->name, "number");
  EXPECT_EQ(out.children[0]->flags, 0);
  EXPECT_EQ(std::string(out.children[0]->metadata, 20), metadata);
  EXPECT_STREQ(out.children[1]->children[1]->format, "tsu:UTC");
  EXPECT_STREQ(out.children[2]->dictionary->format, "u");
  EXPECT_EQ(out.children[2]->flags, ARROW_FLAG_NULLABLE | ARROW_FLAG_DICTIONARY_ORDERED);
  out.release(&out);
  EXPECT_EQ(out.release, nullptr);
}

TEST(TableSchema, NamesTheColumnThatItRefuses) {
  const Result<Field> imported = import_column({"+s", "outer", {{"i", "fine"}, {"+us:0", "inner"}}});
  EXPECT_EQ(imported.status().code(), Code::kUnsupported);
  EXPECT_NE(imported.status().message().find("`outer.inner`"), std::string_view::npos)
      << imported.status().message();
}

TEST(TableSchema, RefusesChildrenThatDoNotFit) {
  EXPECT_EQ(import_column({"+l", "l"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(import_column({"i", "i", {{"i", "child"}}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(import_column({"+m", "m", {{"i", "entries"}}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(import_column({"u", "d", {}, {{"u", ""}}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(import_column({"d:9,0,32", "d", {}, {{"u", ""}}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(import({"i", "no struct"}).status().code(), Code::kInvalidArgument);
}

TEST(TableSchema, BoundsDepthAndFields) {
  EXPECT_TRUE(import_column(nested(62)).is_ok());
  EXPECT_EQ(import_column(nested(64)).status().code(), Code::kTooLarge);
  build::Field wide = build::record({});
  wide.children.resize(kFieldsMax, {"i", "x"});
  EXPECT_TRUE(import(wide).is_ok());
  wide.children.push_back({"i", "one too many"});
  EXPECT_EQ(import(wide).status().code(), Code::kTooLarge);
}

TEST(TableSchema, RefusesMetadataThatIsNoPairs) {
  EXPECT_EQ(import_column({"i", "i", {}, {}, 0, std::string("\1\0\0\0\xff\xff\xff\xff", 8)}).status().code(),
            Code::kTooLarge);
}

std::string stored_as(const build::Field& column, bool compact) {
  return stored_form(import_column(column).value(), compact).children[0].format;
}

TEST(TableSchema, ViewsArePlainAndMoneyIsNarrow) {
  EXPECT_EQ(stored_as({"vu", "v"}, false), "u");
  EXPECT_EQ(stored_as({"vz", "v"}, true), "z");
  EXPECT_EQ(stored_as({"d:15,2", "m"}, false), "d:15,2");
  EXPECT_EQ(stored_as({"d:15,2", "m"}, true), "d:15,2,64");
  EXPECT_EQ(stored_as({"d:18,4,256", "m"}, true), "d:18,4,64");
  EXPECT_EQ(stored_as({"d:19,2", "m"}, true), "d:19,2");
  EXPECT_EQ(stored_as({"d:9,2,32", "m"}, true), "d:9,2,32");
}

bool fits(const build::Field& given, const build::Field& stored) {
  return check_match(import_column(given).value(), import_column(stored).value()).is_ok();
}

TEST(TableSchema, AppendedDataHasTheTablesColumns) {
  EXPECT_TRUE(fits({"i", "a"}, {"i", "a"}));
  EXPECT_FALSE(fits({"i", "a"}, {"i", "b"}));
  EXPECT_FALSE(fits({"i", "a"}, {"l", "a"}));
  EXPECT_TRUE(fits({"i", "a", {}, {}, 0}, {"i", "a"}));
  EXPECT_FALSE(fits({"i", "a"}, {"i", "a", {}, {}, 0}));
  EXPECT_TRUE(fits({"vu", "a"}, {"u", "a"}));
  EXPECT_FALSE(fits({"vu", "a"}, {"z", "a"}));
  EXPECT_TRUE(fits({"d:15,2", "a"}, {"d:15,2,64", "a"}));
  EXPECT_FALSE(fits({"d:15,3", "a"}, {"d:15,2,64", "a"}));
  EXPECT_FALSE(fits({"d:15,2,64", "a"}, {"d:15,2", "a"}));
  EXPECT_TRUE(fits({"U", "a"}, {"c", "a", {}, {{"u", ""}}}));
  EXPECT_FALSE(fits({"c", "a", {}, {{"u", ""}}}, {"u", "a"}));
  EXPECT_TRUE(fits({"+l", "a", {{"i", "item"}}}, {"+l", "a", {{"i", "element"}}}));
  EXPECT_FALSE(fits({"+s", "a", {{"i", "x"}}}, {"+s", "a", {{"i", "y"}}}));
}

}  // namespace
