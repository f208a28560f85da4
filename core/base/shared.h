#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace levin {

/// A shared_ptr that also converts from the object itself, for arguments that levin stores.
///
///     levin::LoaderPtr loader = levin::DataLoader(dataset, {.batch_size = 32});
///     levin::LoaderPtr same = std::make_shared<levin::DataLoader>(dataset, levin::DataLoaderOptions{.batch_size = 32});
///
/// An object of your class must be movable: a declared destructor suppresses the move constructor, so declare that too.
/// Pass a named object with std::move, or make it with std::make_shared to use it further.
template <class Base>
class Shared : public std::shared_ptr<Base> {
 public:
  Shared(std::nullptr_t = nullptr) noexcept {}
  template <class Derived>
  requires std::convertible_to<Derived*, Base*> Shared(std::shared_ptr<Derived> object)
  noexcept : std::shared_ptr<Base>(std::move(object)) {}
  template <class Derived>
  requires std::convertible_to<Derived*, Base*> Shared(std::unique_ptr<Derived> object)
      : std::shared_ptr<Base>(std::move(object)) {}
  template <class Derived>
  requires std::derived_from<Derived, Base> Shared(Derived&& object)
      : std::shared_ptr<Base>(std::make_shared<std::remove_const_t<Derived>>(std::forward<Derived>(object))) {}
};

}  // namespace levin
