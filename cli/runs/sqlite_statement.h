#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin::cli {

/// A statement of SQL with its values. Throws IoError where the database cannot do it.
class SqliteStatement {
 public:
  SqliteStatement(sqlite3* database, const char* sql) : database_(database) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(database, sql, -1, &statement, nullptr));
    statement_.reset(statement);
  }

  /// Gives the next `?` its value. A NaN is null.
  SqliteStatement& add(const std::string& text) {
    check(sqlite3_bind_text64(statement_.get(), ++values_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
    return *this;
  }
  SqliteStatement& add(double number) {
    check(sqlite3_bind_double(statement_.get(), ++values_, number));
    return *this;
  }
  SqliteStatement& add(std::int64_t number) {
    check(sqlite3_bind_int64(statement_.get(), ++values_, number));
    return *this;
  }

  /// Goes to the next row; false when there is none.
  bool next() {
    const int result = sqlite3_step(statement_.get());
    if (result != SQLITE_ROW && result != SQLITE_DONE) check(result);
    return result == SQLITE_ROW;
  }
  /// Does all that it says.
  void run() {
    while (next()) {
    }
  }

  std::string text(int column) const {
    const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
    return bytes == nullptr ? "" : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)));
  }
  double number(int column) const {
    if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::numeric_limits<double>::quiet_NaN();
    return sqlite3_column_double(statement_.get(), column);
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  void check(int result) const {
    if (result != SQLITE_OK) throw IoError(format("SQLite: {}", sqlite3_errmsg(database_)));
  }

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int values_ = 0;
};

}  // namespace levin::cli
