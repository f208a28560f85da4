#pragma once

namespace levin {

/// How ranks of levin's own launcher reach the store of rank 0: a pair of sockets without a name, one end for rank 0 and one
/// for the others, over which they hand it an end of a new connection. Only who inherits an end can use it.
class StoreSockets {
 public:
  /// Throws IoError.
  StoreSockets();
  ~StoreSockets();
  StoreSockets(const StoreSockets&) = delete;
  StoreSockets& operator=(const StoreSockets&) = delete;
  /// The descriptor for a rank; closed on exec until the rank's process has changed that.
  int of(int rank) const { return rank == 0 ? server_ : clients_; }

 private:
  int server_ = -1;
  int clients_ = -1;
};

}  // namespace levin
