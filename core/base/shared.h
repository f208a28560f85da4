#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace levin {

/// A shared_ptr that may be given the object itself, too: what levin takes where it keeps an object.
///
///     levin::LoaderPtr loader = levin::DataLoader(dataset, {.batch_size = 32});
///     levin::LoaderPtr same = std::make_shared<levin::DataLoader>(dataset, levin::DataLoaderOptions{.batch_size = 32});
///
/// An object of your own class has to be movable: a destructor that is declared takes its move constructor away, so declare
/// that too. One that has a name is given with std::move, or is made with std::make_shared where it is used further.
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
