"""Operators of levin in a graph: the code that is compiled into a package for each, since nothing of levin is there when it runs."""


def shim(name, parameters, results, headers, body):
    """The function that Inductor calls for an operator. It puts the declaration into extern "C" { … }, which ends here for what is
    behind it and begins again; hidden, so that each package has its own."""
    declared = ", ".join([*parameters, *(f"AtenTensorHandle* r{index}" for index in range(results))])
    given = ", ".join(f"r{index}" for index in range(results))
    function = f'__attribute__((visibility("hidden"))) AOTITorchError aoti_torch_cpu_{name}({declared})'
    included = "".join(f"#include <{header}>\n" for header in headers)
    return f"""{function};
}}
{included}#include <c10/core/GradMode.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>
extern "C" {function} {{
  using namespace torch::aot_inductor;
  const auto given = [](AtenTensorHandle handle) {{ return tensor_handle_to_tensor_pointer(handle)->contiguous(); }};
  AtenTensorHandle* const taken[] = {{{given}}};
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({{
    auto results = {body};
    std::apply([&](auto&... result) {{ int index = 0; ((*taken[index++] = new_tensor_handle(std::move(result))), ...); }}, results);
  }});
}}
extern "C" {{
int levin_{name}_is_declared"""
