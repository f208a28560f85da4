! levin for Fortran 2018: a Session that a program drives (docs/c-api.md). Compile this file with your own; link liblevin.
!
!     use levin
!     type(levin_session) :: session
!     type(levin_batch) :: batch, prediction
!     call session%open("run.yaml", [character(24) :: "trainer.max_steps=100"])
!     call session%begin()
!     call batch%set("features", features)           ! features(feature, sample)
!     do while (.not. session%should_stop())
!       call march(features)
!       call session%step(batch, loss)
!     end do
!     call session%predict(batch, prediction)
!     call prediction%get("value", values)           ! values(component, sample)
!     call session%end()
!
! An array is a tensor with its dimensions in reverse order: features(feature, sample) is [sample, feature], as both are in
! memory. With same_order=.true., features(sample, feature) is [sample, feature], with the strides of a column-major matrix.
! Nothing is copied: an array is contiguous, has the attribute `target`, and stays until the batch is freed. Call free() of a
! batch and close() of a session when they are done with; do not copy either.
!
! `status`, where it is given, gets 0 or one of levin_c.h's numbers, and levin_error() the text; without it an error ends the
! program.
module levin
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_quiet_nan
  implicit none
  private

  integer, parameter, public :: levin_ok = 0, levin_failed = 1, levin_config_error = 2, levin_misuse = 3, &
                                levin_io_error = 4, levin_desync = 5, levin_interrupted = 6, levin_no_memory = 7
  integer(c_int32_t), parameter :: type_int32 = 4, type_int64 = 5, type_real32 = 8, type_real64 = 9
  integer, parameter :: most_dimensions = 15
  ! Of an error that was found here, until the next call.
  character(:), allocatable :: own_error

  ! Named tensors. The last dimension of an array is the sample, unless it is given in the same order.
  type, public :: levin_batch
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    generic :: set => set_real32, set_real64, set_int32, set_int64
    generic :: get => get_real32, get_real64, get_int32, get_int64
    procedure, private :: set_real32, set_real64, set_int32, set_int64
    procedure, private :: get_real32, get_real64, get_int32, get_int64
    procedure :: free => batch_free
  end type levin_batch

  type, public :: levin_session
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => session_open
    procedure :: open_text => session_open_text
    generic :: keep => keep_real32, keep_real64, keep_int32, keep_int64
    procedure, private :: keep_real32, keep_real64, keep_int32, keep_int64
    procedure :: begin => session_begin
    procedure :: step => session_step
    procedure :: begin_epoch => session_begin_epoch
    procedure :: end_epoch => session_end_epoch
    procedure :: validate => session_validate
    procedure :: test => session_test
    procedure :: predict => session_predict
    procedure :: save => session_save
    procedure :: load => session_load
    procedure :: end => session_end
    procedure :: stop => session_stop
    procedure :: close => session_close
    procedure :: metric => session_metric
    procedure :: global_step => session_global_step
    procedure :: epoch => session_epoch
    procedure :: should_stop => session_should_stop
    procedure :: rank => session_rank
    procedure :: world_size => session_world_size
    procedure :: log_dir => session_log_dir
  end type levin_session

  ! A trained model for prediction alone, with the numbers of `levin predict`.
  type, public :: levin_predictor
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => predictor_open
    procedure :: predict => predictor_predict
    procedure :: close => predictor_close
  end type levin_predictor

  type, bind(c) :: step_result
    real(c_double) :: loss
    integer(c_int32_t) :: ends_epoch
    integer(c_int32_t) :: stops
  end type step_result

  public :: levin_error

  interface
    function c_last_error() bind(c, name="levin_last_error") result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_strlen(text) bind(c, name="strlen") result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
    function c_batch_create(batch) bind(c, name="levin_batch_create") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), intent(out) :: batch
      integer(c_int32_t) :: status
    end function
    subroutine c_batch_free(batch) bind(c, name="levin_batch_free")
      import :: c_ptr
      type(c_ptr), value :: batch
    end subroutine
    function c_batch_set(batch, name, data, dtype, dimensions, shape, strides) bind(c, name="levin_batch_set") result(status)
      import :: c_ptr, c_char, c_int32_t, c_int64_t
      type(c_ptr), value :: batch, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype, dimensions
      integer(c_int64_t), intent(in) :: shape(*), strides(*)
      integer(c_int32_t) :: status
    end function
    function c_batch_copy(batch, name, data, dtype, dimensions, shape, strides) bind(c, name="levin_batch_copy") result(status)
      import :: c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: batch, name, data
      integer(c_int32_t), value :: dtype, dimensions
      integer(c_int64_t), intent(in) :: shape(*), strides(*)
      integer(c_int32_t) :: status
    end function
    function c_session_keep(session, name, data, dtype, dimensions, shape, strides) &
        bind(c, name="levin_session_keep") result(status)
      import :: c_ptr, c_char, c_int32_t, c_int64_t
      type(c_ptr), value :: session, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype, dimensions
      integer(c_int64_t), intent(in) :: shape(*), strides(*)
      integer(c_int32_t) :: status
    end function
    function c_session_open(file, overrides, override_count, session) bind(c, name="levin_session_open") result(status)
      import :: c_ptr, c_char, c_int32_t, c_size_t
      character(kind=c_char), intent(in) :: file(*)
      type(c_ptr), intent(in) :: overrides(*)
      integer(c_size_t), value :: override_count
      type(c_ptr), intent(out) :: session
      integer(c_int32_t) :: status
    end function
    function c_session_open_text(yaml, overrides, override_count, session) &
        bind(c, name="levin_session_open_text") result(status)
      import :: c_ptr, c_char, c_int32_t, c_size_t
      character(kind=c_char), intent(in) :: yaml(*)
      type(c_ptr), intent(in) :: overrides(*)
      integer(c_size_t), value :: override_count
      type(c_ptr), intent(out) :: session
      integer(c_int32_t) :: status
    end function
    subroutine c_session_close(session) bind(c, name="levin_session_close")
      import :: c_ptr
      type(c_ptr), value :: session
    end subroutine
    function c_session_begin(session, ckpt_path) bind(c, name="levin_session_begin") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session, ckpt_path
      integer(c_int32_t) :: status
    end function
    function c_session_step(session, batch, outcome) bind(c, name="levin_session_step") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session, batch, outcome
      integer(c_int32_t) :: status
    end function
    function c_session_begin_epoch(session, stops) bind(c, name="levin_session_begin_epoch") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t), intent(out) :: stops
      integer(c_int32_t) :: status
    end function
    function c_session_end_epoch(session, stops) bind(c, name="levin_session_end_epoch") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t), intent(out) :: stops
      integer(c_int32_t) :: status
    end function
    function c_session_validate(session, batches, count) bind(c, name="levin_session_validate") result(status)
      import :: c_ptr, c_int32_t, c_size_t
      type(c_ptr), value :: session
      type(c_ptr), intent(in) :: batches(*)
      integer(c_size_t), value :: count
      integer(c_int32_t) :: status
    end function
    function c_session_test(session, batches, count) bind(c, name="levin_session_test") result(status)
      import :: c_ptr, c_int32_t, c_size_t
      type(c_ptr), value :: session
      type(c_ptr), intent(in) :: batches(*)
      integer(c_size_t), value :: count
      integer(c_int32_t) :: status
    end function
    function c_session_predict(session, batch, prediction) bind(c, name="levin_session_predict") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session, batch
      type(c_ptr), intent(out) :: prediction
      integer(c_int32_t) :: status
    end function
    function c_predictor_open(file, plugins, count, predictor) bind(c, name="levin_predictor_open") result(status)
      import :: c_ptr, c_char, c_int32_t, c_size_t
      character(kind=c_char), intent(in) :: file(*)
      type(c_ptr), intent(in) :: plugins(*)
      integer(c_size_t), value :: count
      type(c_ptr), intent(out) :: predictor
      integer(c_int32_t) :: status
    end function
    subroutine c_predictor_close(predictor) bind(c, name="levin_predictor_close")
      import :: c_ptr
      type(c_ptr), value :: predictor
    end subroutine
    function c_predictor_predict(predictor, batch, prediction) bind(c, name="levin_predictor_predict") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: predictor, batch
      type(c_ptr), intent(out) :: prediction
      integer(c_int32_t) :: status
    end function
    function c_session_save(session, file) bind(c, name="levin_session_save") result(status)
      import :: c_ptr, c_char, c_int32_t
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: file(*)
      integer(c_int32_t) :: status
    end function
    function c_session_load(session, file) bind(c, name="levin_session_load") result(status)
      import :: c_ptr, c_char, c_int32_t
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: file(*)
      integer(c_int32_t) :: status
    end function
    function c_session_end(session) bind(c, name="levin_session_end") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t) :: status
    end function
    function c_session_stop(session, reason) bind(c, name="levin_session_stop") result(status)
      import :: c_ptr, c_char, c_int32_t
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: reason(*)
      integer(c_int32_t) :: status
    end function
    function c_session_metric(session, name, number) bind(c, name="levin_session_metric") result(status)
      import :: c_ptr, c_char, c_double, c_int32_t
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), intent(out) :: number
      integer(c_int32_t) :: status
    end function
    function c_session_global_step(session) bind(c, name="levin_session_global_step") result(number)
      import :: c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t) :: number
    end function
    function c_session_epoch(session) bind(c, name="levin_session_epoch") result(number)
      import :: c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t) :: number
    end function
    function c_session_should_stop(session) bind(c, name="levin_session_should_stop") result(number)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t) :: number
    end function
    function c_session_rank(session) bind(c, name="levin_session_rank") result(number)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t) :: number
    end function
    function c_session_world_size(session) bind(c, name="levin_session_world_size") result(number)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t) :: number
    end function
    function c_session_log_dir(session, folder) bind(c, name="levin_session_log_dir") result(status)
      import :: c_ptr, c_int32_t
      type(c_ptr), value :: session
      type(c_ptr), intent(out) :: folder
      integer(c_int32_t) :: status
    end function
  end interface

contains

  ! Why the last call that failed did so.
  function levin_error() result(text)
    character(:), allocatable :: text
    if (allocated(own_error)) then
      text = own_error
    else
      text = text_of(c_last_error())
    end if
  end function

  ! ---- batches --------------------------------------------------------------------------------------------------------------

  ! set() adds an array as a tensor, or replaces that of the same name.

  subroutine set_real32(self, name, array, same_order, status)
    class(levin_batch), intent(inout) :: self
    character(*), intent(in) :: name
    real(c_float), intent(in), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call set_memory(self, name, c_loc(array), type_real32, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  subroutine set_real64(self, name, array, same_order, status)
    class(levin_batch), intent(inout) :: self
    character(*), intent(in) :: name
    real(c_double), intent(in), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call set_memory(self, name, c_loc(array), type_real64, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  subroutine set_int32(self, name, array, same_order, status)
    class(levin_batch), intent(inout) :: self
    character(*), intent(in) :: name
    integer(c_int32_t), intent(in), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call set_memory(self, name, c_loc(array), type_int32, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  subroutine set_int64(self, name, array, same_order, status)
    class(levin_batch), intent(inout) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call set_memory(self, name, c_loc(array), type_int64, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  ! get() copies a tensor into an array of the same shape, and converts it to its type. "" is the first tensor.

  subroutine get_real32(self, name, array, same_order, status)
    class(levin_batch), intent(in) :: self
    character(*), intent(in) :: name
    real(c_float), intent(inout), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call get_memory(self, name, c_loc(array), type_real32, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  subroutine get_real64(self, name, array, same_order, status)
    class(levin_batch), intent(in) :: self
    character(*), intent(in) :: name
    real(c_double), intent(inout), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call get_memory(self, name, c_loc(array), type_real64, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  subroutine get_int32(self, name, array, same_order, status)
    class(levin_batch), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int32_t), intent(inout), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call get_memory(self, name, c_loc(array), type_int32, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  subroutine get_int64(self, name, array, same_order, status)
    class(levin_batch), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), intent(inout), target :: array(..)
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    call get_memory(self, name, c_loc(array), type_int64, shape(array), is_contiguous(array), same_order, status)
  end subroutine

  subroutine set_memory(self, name, data, dtype, shape, is_contiguous_array, same_order, status)
    type(levin_batch), intent(inout) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: data
    integer(c_int32_t), intent(in) :: dtype
    integer, intent(in) :: shape(:)
    logical, intent(in) :: is_contiguous_array
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    integer(c_int64_t) :: sizes(most_dimensions), strides(most_dimensions)
    integer :: code
    if (.not. contiguous_or_fails("set", name, is_contiguous_array, status)) return
    code = levin_ok
    if (.not. c_associated(self%handle)) code = c_batch_create(self%handle)
    call lay_out(shape, same_order, sizes, strides)
    if (code == levin_ok) then
      code = c_batch_set(self%handle, c_text(name), data, dtype, int(size(shape), c_int32_t), sizes, strides)
    end if
    call conclude(code, status)
  end subroutine

  subroutine get_memory(self, name, data, dtype, shape, is_contiguous_array, same_order, status)
    type(levin_batch), intent(in) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: data
    integer(c_int32_t), intent(in) :: dtype
    integer, intent(in) :: shape(:)
    logical, intent(in) :: is_contiguous_array
    logical, intent(in), optional :: same_order
    integer, intent(out), optional :: status
    integer(c_int64_t) :: sizes(most_dimensions), strides(most_dimensions)
    character(kind=c_char), target :: c_name(len(name) + 1)
    type(c_ptr) :: name_or_first
    if (.not. contiguous_or_fails("get", name, is_contiguous_array, status)) return
    call lay_out(shape, same_order, sizes, strides)
    c_name = c_text(name)
    name_or_first = c_null_ptr
    if (len_trim(name) > 0) name_or_first = c_loc(c_name)
    call conclude(c_batch_copy(self%handle, name_or_first, data, dtype, int(size(shape), c_int32_t), sizes, strides), status)
  end subroutine

  subroutine batch_free(self)
    class(levin_batch), intent(inout) :: self
    call c_batch_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  ! ---- sessions -------------------------------------------------------------------------------------------------------------

  ! Makes module, data and Trainer from a file, as `levin fit --config file` does. Blanks at the end of overrides do not count.
  subroutine session_open(self, file, overrides, status)
    class(levin_session), intent(inout) :: self
    character(*), intent(in) :: file
    character(*), intent(in), optional :: overrides(:)
    integer, intent(out), optional :: status
    character(kind=c_char), allocatable, target :: texts(:, :)
    type(c_ptr), allocatable :: pointers(:)
    call self%close()
    call c_texts(overrides, texts, pointers)
    call conclude(c_session_open(c_text(file), pointers, size(pointers, kind=c_size_t), self%handle), status)
  end subroutine

  ! The same from YAML itself.
  subroutine session_open_text(self, yaml, overrides, status)
    class(levin_session), intent(inout) :: self
    character(*), intent(in) :: yaml
    character(*), intent(in), optional :: overrides(:)
    integer, intent(out), optional :: status
    character(kind=c_char), allocatable, target :: texts(:, :)
    type(c_ptr), allocatable :: pointers(:)
    call self%close()
    call c_texts(overrides, texts, pointers)
    call conclude(c_session_open_text(c_text(yaml), pointers, size(pointers, kind=c_size_t), self%handle), status)
  end subroutine

  ! keep() stores an array in each checkpoint, and begin() restores it. Call it before.

  subroutine keep_real32(self, name, array, status)
    class(levin_session), intent(in) :: self
    character(*), intent(in) :: name
    real(c_float), intent(inout), target :: array(..)
    integer, intent(out), optional :: status
    call keep_memory(self, name, c_loc(array), type_real32, shape(array), is_contiguous(array), status)
  end subroutine

  subroutine keep_real64(self, name, array, status)
    class(levin_session), intent(in) :: self
    character(*), intent(in) :: name
    real(c_double), intent(inout), target :: array(..)
    integer, intent(out), optional :: status
    call keep_memory(self, name, c_loc(array), type_real64, shape(array), is_contiguous(array), status)
  end subroutine

  subroutine keep_int32(self, name, array, status)
    class(levin_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int32_t), intent(inout), target :: array(..)
    integer, intent(out), optional :: status
    call keep_memory(self, name, c_loc(array), type_int32, shape(array), is_contiguous(array), status)
  end subroutine

  subroutine keep_int64(self, name, array, status)
    class(levin_session), intent(in) :: self
    character(*), intent(in) :: name
    integer(c_int64_t), intent(inout), target :: array(..)
    integer, intent(out), optional :: status
    call keep_memory(self, name, c_loc(array), type_int64, shape(array), is_contiguous(array), status)
  end subroutine

  subroutine keep_memory(self, name, data, dtype, shape, is_contiguous_array, status)
    type(levin_session), intent(in) :: self
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: data
    integer(c_int32_t), intent(in) :: dtype
    integer, intent(in) :: shape(:)
    logical, intent(in) :: is_contiguous_array
    integer, intent(out), optional :: status
    integer(c_int64_t) :: sizes(most_dimensions), strides(most_dimensions)
    if (.not. contiguous_or_fails("keep", name, is_contiguous_array, status)) return
    call lay_out(shape, .false., sizes, strides)
    call conclude(c_session_keep(self%handle, c_text(name), data, dtype, int(size(shape), c_int32_t), sizes, strides), status)
  end subroutine

  ! `ckpt_path`: a checkpoint to resume from, "last" or "best".
  subroutine session_begin(self, ckpt_path, status)
    class(levin_session), intent(inout) :: self
    character(*), intent(in), optional :: ckpt_path
    integer, intent(out), optional :: status
    character(kind=c_char), allocatable, target :: path(:)
    if (present(ckpt_path)) then
      allocate (path(len(ckpt_path) + 1))
      path = c_text(ckpt_path)
      call conclude(c_session_begin(self%handle, c_loc(path)), status)
    else
      call conclude(c_session_begin(self%handle, c_null_ptr), status)
    end if
  end subroutine

  ! Trains on a batch. `loss`: NaN if there is none.
  subroutine session_step(self, batch, loss, ends_epoch, stops, status)
    class(levin_session), intent(inout) :: self
    type(levin_batch), intent(in) :: batch
    real(c_double), intent(out), optional :: loss
    logical, intent(out), optional :: ends_epoch, stops
    integer, intent(out), optional :: status
    type(step_result), target :: outcome
    integer(c_int32_t) :: code
    outcome = step_result(ieee_value(0.0_c_double, ieee_quiet_nan), 0, 0)
    if (present(loss) .or. present(ends_epoch) .or. present(stops)) then
      code = c_session_step(self%handle, batch%handle, c_loc(outcome))
    else
      code = c_session_step(self%handle, batch%handle, c_null_ptr)
    end if
    if (present(loss)) loss = outcome%loss
    if (present(ends_epoch)) ends_epoch = outcome%ends_epoch /= 0
    if (present(stops)) stops = outcome%stops /= 0
    call conclude(code, status)
  end subroutine

  ! `stops`: training is over.
  subroutine session_begin_epoch(self, stops, status)
    class(levin_session), intent(inout) :: self
    logical, intent(out), optional :: stops
    integer, intent(out), optional :: status
    integer(c_int32_t) :: code, is_over
    is_over = 0
    code = c_session_begin_epoch(self%handle, is_over)
    if (present(stops)) stops = is_over /= 0
    call conclude(code, status)
  end subroutine

  subroutine session_end_epoch(self, stops, status)
    class(levin_session), intent(inout) :: self
    logical, intent(out), optional :: stops
    integer, intent(out), optional :: status
    integer(c_int32_t) :: code, is_over
    is_over = 0
    code = c_session_end_epoch(self%handle, is_over)
    if (present(stops)) stops = is_over /= 0
    call conclude(code, status)
  end subroutine

  ! Evaluates the model on batches, or without them on the data of the YAML. metric() has the results.
  subroutine session_validate(self, batches, status)
    class(levin_session), intent(inout) :: self
    type(levin_batch), intent(in), optional :: batches(:)
    integer, intent(out), optional :: status
    type(c_ptr), allocatable :: handles(:)
    call collect(batches, handles)
    call conclude(c_session_validate(self%handle, handles, size(handles, kind=c_size_t)), status)
  end subroutine

  subroutine session_test(self, batches, status)
    class(levin_session), intent(inout) :: self
    type(levin_batch), intent(in), optional :: batches(:)
    integer, intent(out), optional :: status
    type(c_ptr), allocatable :: handles(:)
    call collect(batches, handles)
    call conclude(c_session_test(self%handle, handles, size(handles, kind=c_size_t)), status)
  end subroutine

  subroutine session_predict(self, batch, prediction, status)
    class(levin_session), intent(inout) :: self
    type(levin_batch), intent(in) :: batch
    type(levin_batch), intent(inout) :: prediction
    integer, intent(out), optional :: status
    call prediction%free()
    call conclude(c_session_predict(self%handle, batch%handle, prediction%handle), status)
  end subroutine

  ! `file`: a checkpoint, the folder of a run, "logs/version_0:best", or a package. `plugins`: libraries with its classes.
  subroutine predictor_open(self, file, plugins, status)
    class(levin_predictor), intent(inout) :: self
    character(*), intent(in) :: file
    character(*), intent(in), optional :: plugins(:)
    integer, intent(out), optional :: status
    character(kind=c_char), allocatable, target :: texts(:, :)
    type(c_ptr), allocatable :: pointers(:)
    call self%close()
    call c_texts(plugins, texts, pointers)
    call conclude(c_predictor_open(c_text(file), pointers, size(pointers, kind=c_size_t), self%handle), status)
  end subroutine

  ! Predicts for a batch with the data's own values.
  subroutine predictor_predict(self, batch, prediction, status)
    class(levin_predictor), intent(in) :: self
    type(levin_batch), intent(in) :: batch
    type(levin_batch), intent(inout) :: prediction
    integer, intent(out), optional :: status
    call prediction%free()
    call conclude(c_predictor_predict(self%handle, batch%handle, prediction%handle), status)
  end subroutine

  subroutine predictor_close(self)
    class(levin_predictor), intent(inout) :: self
    call c_predictor_close(self%handle)
    self%handle = c_null_ptr
  end subroutine

  ! Writes a checkpoint from which begin() resumes exactly here.
  subroutine session_save(self, file, status)
    class(levin_session), intent(inout) :: self
    character(*), intent(in) :: file
    integer, intent(out), optional :: status
    call conclude(c_session_save(self%handle, c_text(file)), status)
  end subroutine

  ! Gives the model the weights of a file; optimizers and counters stay.
  subroutine session_load(self, file, status)
    class(levin_session), intent(inout) :: self
    character(*), intent(in) :: file
    integer, intent(out), optional :: status
    call conclude(c_session_load(self%handle, c_text(file)), status)
  end subroutine

  ! Ends the epoch and training. The session may begin again.
  subroutine session_end(self, status)
    class(levin_session), intent(inout) :: self
    integer, intent(out), optional :: status
    call conclude(c_session_end(self%handle), status)
  end subroutine

  ! Asks training to end after the next step, on all ranks.
  subroutine session_stop(self, reason, status)
    class(levin_session), intent(in) :: self
    character(*), intent(in) :: reason
    integer, intent(out), optional :: status
    call conclude(c_session_stop(self%handle, c_text(reason)), status)
  end subroutine

  ! Frees it. A session that has begun and not ended fails for the other ranks.
  subroutine session_close(self)
    class(levin_session), intent(inout) :: self
    call c_session_close(self%handle)
    self%handle = c_null_ptr
  end subroutine

  ! The newest value of what the model logged; NaN with a status other than 0.
  function session_metric(self, name, status) result(number)
    class(levin_session), intent(in) :: self
    character(*), intent(in) :: name
    integer, intent(out), optional :: status
    real(c_double) :: number
    number = ieee_value(0.0_c_double, ieee_quiet_nan)
    call conclude(c_session_metric(self%handle, c_text(name), number), status)
  end function

  ! Optimizer steps so far.
  function session_global_step(self) result(number)
    class(levin_session), intent(in) :: self
    integer(c_int64_t) :: number
    number = c_session_global_step(self%handle)
  end function

  function session_epoch(self) result(number)
    class(levin_session), intent(in) :: self
    integer(c_int64_t) :: number
    number = c_session_epoch(self%handle)
  end function

  function session_should_stop(self) result(answer)
    class(levin_session), intent(in) :: self
    logical :: answer
    answer = c_session_should_stop(self%handle) /= 0
  end function

  function session_rank(self) result(number)
    class(levin_session), intent(in) :: self
    integer :: number
    number = c_session_rank(self%handle)
  end function

  function session_world_size(self) result(number)
    class(levin_session), intent(in) :: self
    integer :: number
    number = c_session_world_size(self%handle)
  end function

  ! The folder of the run's files.
  function session_log_dir(self) result(folder)
    class(levin_session), intent(in) :: self
    character(:), allocatable :: folder
    type(c_ptr) :: text
    text = c_null_ptr
    call conclude(c_session_log_dir(self%handle, text))
    folder = text_of(text)
  end function

  ! ---- what these share -----------------------------------------------------------------------------------------------------

  ! Gives the status to a caller that asks for it; without one an error ends the program.
  subroutine conclude(code, status)
    integer(c_int32_t), intent(in) :: code
    integer, intent(out), optional :: status
    if (allocated(own_error)) deallocate (own_error)
    if (present(status)) then
      status = code
    else if (code /= levin_ok) then
      call end_program(levin_error())
    end if
  end subroutine

  subroutine end_program(text)
    character(*), intent(in) :: text
    write (error_unit, "(2a)") "error: ", text
    flush (error_unit)
    stop 1, quiet=.true.
  end subroutine

  ! A section with gaps would be copied by the compiler, and levin would hold a copy that is gone.
  function contiguous_or_fails(call_name, name, is_contiguous_array, status) result(fine)
    character(*), intent(in) :: call_name, name
    logical, intent(in) :: is_contiguous_array
    integer, intent(out), optional :: status
    logical :: fine
    fine = is_contiguous_array
    if (fine) return
    own_error = call_name // "('" // trim(name) // "'): the array has gaps in memory; give a contiguous one"
    if (present(status)) then
      status = levin_misuse
    else
      call end_program(own_error)
    end if
  end function

  ! Shape and strides of the tensor that an array is.
  subroutine lay_out(shape, same_order, sizes, strides)
    integer, intent(in) :: shape(:)
    logical, intent(in), optional :: same_order
    integer(c_int64_t), intent(out) :: sizes(:), strides(:)
    integer :: dimension, position
    integer(c_int64_t) :: stride
    logical :: reversed
    reversed = .true.
    if (present(same_order)) reversed = .not. same_order
    sizes = 0
    strides = 0
    stride = 1
    do dimension = 1, size(shape)
      position = dimension
      if (reversed) position = size(shape) + 1 - dimension
      sizes(position) = shape(dimension)
      strides(position) = stride
      stride = stride * max(shape(dimension), 1)
    end do
  end subroutine

  subroutine collect(batches, handles)
    type(levin_batch), intent(in), optional :: batches(:)
    type(c_ptr), allocatable, intent(out) :: handles(:)
    integer :: index
    if (.not. present(batches)) then
      allocate (handles(0))
      return
    end if
    allocate (handles(size(batches)))
    do index = 1, size(batches)
      handles(index) = batches(index)%handle
    end do
  end subroutine

  ! A text for C, without the blanks at its end.
  pure function c_text(text) result(characters)
    character(*), intent(in) :: text
    character(kind=c_char) :: characters(len(text) + 1)
    integer :: index
    characters = c_null_char
    do index = 1, len_trim(text)
      characters(index) = text(index:index)
    end do
  end function

  subroutine c_texts(given, texts, pointers)
    character(*), intent(in), optional :: given(:)
    character(kind=c_char), allocatable, target, intent(out) :: texts(:, :)
    type(c_ptr), allocatable, intent(out) :: pointers(:)
    integer :: index
    if (.not. present(given)) then
      allocate (texts(1, 0), pointers(0))
      return
    end if
    allocate (texts(len(given) + 1, size(given)), pointers(size(given)))
    do index = 1, size(given)
      texts(:, index) = c_text(given(index))
      pointers(index) = c_loc(texts(1, index))
    end do
  end subroutine

  function text_of(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: copy
    character(kind=c_char), pointer :: characters(:)
    integer :: index
    if (.not. c_associated(text)) then
      copy = ""
      return
    end if
    call c_f_pointer(text, characters, [c_strlen(text)])
    allocate (character(size(characters)) :: copy)
    do index = 1, size(characters)
      copy(index:index) = characters(index)
    end do
  end function

end module levin
